"""Exact Tsallis policies on the CPU: one compiled loop over the rows, without temporaries.

The mathematics is that of ``tensors``, which works on whole tensors and is the test oracle of this
package. Rows are short, so tensor operations spend their time on dispatch and memory; here a row
stays in cache, only actions that can be in the support are visited, and all arithmetic is in
double precision whatever the dtype of the data.
"""

from mviq.tsallis.kernels.backward import pull_back_rows
from mviq.tsallis.kernels.compiling import Floats
from mviq.tsallis.kernels.forward import evaluate_rows, solve_rows

__all__ = ["Floats", "evaluate_rows", "pull_back_rows", "solve_rows"]
