"""A real Chromium for the tests of pages: found, or taken from the npm registry without root.

``python tests/chromium.py DIRECTORY`` unpacks the npm package that carries the browser's binary.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

PACKAGE = "@sparticuz/chromium@153.0.0"  # headless, x86-64 Linux, with the libraries it needs
PLACE = Path(sys.prefix) / "chromium"
INSTALLED = ("chromium", "chromium-headless-shell", "google-chrome", "google-chrome-stable")
UNPACK = """
const fs = require("fs");
const [from, to] = process.argv.slice(1);
fs.writeFileSync(to, require("zlib").brotliDecompressSync(fs.readFileSync(from)));
"""


def launch_options() -> dict | None:
    """Return what Playwright needs to start the browser, None if there is none."""
    own = PLACE / "chromium"
    path = str(own) if own.is_file() else next(filter(None, map(shutil.which, INSTALLED)), None)
    if path is None:
        return None
    libraries = {"LD_LIBRARY_PATH": str(PLACE / "lib")} if own.is_file() else {}
    return {
        "executable_path": path,
        "env": {**os.environ, **libraries},
        "args": ["--no-sandbox"],  # it opens only pages that the tests have made
    }


def install(directory: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        command = ["npm", "pack", "--silent", "--pack-destination", scratch, PACKAGE]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        (archive,) = Path(scratch).glob("*.tgz")
        with tarfile.open(archive) as packed:
            packed.extractall(scratch, filter="data")
        binaries = Path(scratch) / "package" / "bin"
        whole = Path(scratch) / "chromium"
        whole.mkdir()
        for name in ("al2023.tar", "swiftshader.tar", "chromium"):
            source, target = binaries / f"{name}.br", whole / name
            subprocess.run(["node", "-e", UNPACK, str(source), str(target)], check=True)
            if target.suffix == ".tar":
                with tarfile.open(target) as packed:
                    packed.extractall(whole, filter="data")
                target.unlink()
        (whole / "chromium").chmod(0o755)
        shutil.rmtree(directory, ignore_errors=True)
        shutil.move(whole, directory)


def main() -> None:
    try:
        install(Path(sys.argv[1]))
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"no browser from npm ({error}): tests of pages use one that is installed, or none")


if __name__ == "__main__":
    main()
