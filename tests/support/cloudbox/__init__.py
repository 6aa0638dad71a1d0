"""Clouds in a box: what moto's EC2 and the fake Compute Engine start boots here, in namespaces of its own.

Machines boot from the user data and the options that the cloud was given, find a metadata service at its usual
address, and reach nothing but the cluster. The control plane calls AWS and Google by their own names, through a proxy.
"""
