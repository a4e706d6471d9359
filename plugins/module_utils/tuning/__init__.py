"""Apply and compare the settings of the role node_tuning."""
