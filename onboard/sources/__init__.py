"""Where models are read from: the only modules that touch the network, or the disk for a model's own files.

`files` is the seam (what a repository holds, and bounded reads of it); `local` and `hub` answer it; `spec` reads
what a user typed. Nothing here understands a config.
"""
