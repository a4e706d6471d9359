"""Model of a fabric, with its names, places, rates and GUIDs."""
