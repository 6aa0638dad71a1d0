"""Clouds in a box: machines of moto's EC2 and of the fake Compute Engine boot here, in their own namespaces.

Machines boot from the user data and options of their launch, find a metadata service at its usual address, and reach
only the cluster. The control plane calls AWS and Google by their own names, through a proxy.
"""
