# Filled in by the install work: export set, package config, pkg-config file.
