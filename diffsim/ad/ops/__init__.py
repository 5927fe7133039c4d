"""Operations of arrays and the rules of their derivatives."""
