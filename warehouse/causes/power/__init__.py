"""Faults and limits of electric power below the hall."""
