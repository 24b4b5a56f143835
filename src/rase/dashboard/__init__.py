"""The dashboard: pages of a fusion centre, which it asks as any subscriber does."""
