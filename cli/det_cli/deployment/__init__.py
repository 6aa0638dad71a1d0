"""Deployment of clusters to clouds with Terraform."""
