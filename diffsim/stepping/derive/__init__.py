"""Programs derived from a traced step: forward, adjoint, tangent, undoing, and what the adjoint needs recorded."""
