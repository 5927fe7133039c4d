"""Programs derived from a traced step: forward, adjoint, tangent, undoing, and the residuals that the adjoint needs."""
