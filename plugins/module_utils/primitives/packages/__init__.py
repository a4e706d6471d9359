"""Install and hold packages of apt and dnf."""
