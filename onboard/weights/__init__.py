"""What is loaded: which files of a repository, which tensors in them, how many bytes, and parameters by rule.

`choose` picks the set, `safetensors_header` reads names, dtypes and shapes, `names` gives each tensor a role,
`quant` unpacks elements, `groups` adds equal tensors up, `parameters` computes the same groups from a config alone,
and `variants` ties them together.
"""
