"""Pure math on tensors: no state, no modules; import the file you need."""
