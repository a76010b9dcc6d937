"""What only colibri serves: closed questions, plan, experts, atlas, and where time goes."""
