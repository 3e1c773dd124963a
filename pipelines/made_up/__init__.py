"""Made-up worlds whose changes behave like real ones: a shop, and a site with page views."""
