"""The graph llama.cpp reserves, tensor by tensor, laid out as ggml's allocator would: its peak is the buffer."""
