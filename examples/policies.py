"""How the entropic index shapes a policy: one call for a whole sweep over q.

python examples/policies.py
"""

import torch

from mviq.tsallis import entropy, policy, soft_value

q_values = torch.tensor([1.0, 0.9, 0.5, 0.0])
indices = torch.tensor([1.0, 1.5, 2.0, 3.0, 10.0, float("inf")])

policies = policy(q_values, indices, temperature=0.5)
print("     q   policy of the action values 1.0, 0.9, 0.5, 0.0        S_q    soft value")
for q, row in zip(indices.tolist(), policies, strict=True):
    chances = "  ".join(f"{chance:.4f}" for chance in row.tolist())
    value = soft_value(q_values, q, temperature=0.5).item()
    print(f"{q:6g}   {chances}              {entropy(row, q).item():7.4f}    {value:.4f}")
