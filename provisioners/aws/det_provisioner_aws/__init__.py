"""Machines of Amazon EC2. Importing the package loads no SDK: its modules do, in the processes that call AWS."""
