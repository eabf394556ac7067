//! The node agent: moves the bytes of volumes by pods that it starts, and follows each to its end.
