"""Clusters in clouds, made and removed by Terraform."""
