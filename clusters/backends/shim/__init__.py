"""Libraries of ours that are preloaded into a node's processes (``LD_PRELOAD``), and stand between the program and its C library.

A shim is one C source here. It is compiled on demand (:mod:`.compile`), mapped by the node with a **control file** that the controller
writes while the node runs (:mod:`.preload`), and tells in the same file what it did, since a shim that a program does not notice
(it is linked statically, it makes system calls by itself) would be a fault that did not happen.

Sources include no header and are linked against nothing, so that a compiler without any library makes them, and what was compiled
here loads under every C library of the same kind of machine, however old: what they need of it they declare themselves, and its
symbols are bound without a version.
"""
