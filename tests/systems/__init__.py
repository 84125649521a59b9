"""Tests that start real programs of others: sshd, Slurm, Ansible, Prometheus, package tools."""
