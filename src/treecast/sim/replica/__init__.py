"""The scenario of a broker with a backup: crashes without their disks, partitions, take-over and return."""
