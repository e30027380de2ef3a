"""Why the explicit Tsallis-KL step can lock in a bad policy, and MVI(q) does not.

python examples/solve_lock_in.py
"""

from mviq.tabular import Diagnostics, algorithm, lock_in_chain, solve

mdp = lock_in_chain()  # stay for 0.1 per step, or walk seven steps to get 1 per step
print("algorithm   status      iterations   value from the start (13.97 is optimal)")
for name in ("vi", "mvi", "kl-vi", "tkl-vi"):
    run = solve(mdp, algorithm(name), diagnostics=Diagnostics(values_every=100))
    value = run.history[-1].policy_value
    print(f"{name:<12}{run.status.value:<12}{run.iterations:>10}   {value:.2f}")
