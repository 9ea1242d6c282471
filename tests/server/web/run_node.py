"""run_node.py ARGUMENTS: runs node with these arguments. Exit status 77 (skipped) if node is not installed.

node is looked up when the test runs, so that cmake need not be run again after it was installed.
"""
import os
import shutil
import sys

node = shutil.which("node")
if node is None:
    print("skipped: node is not installed (apt-get install nodejs)", file=sys.stderr)
    sys.exit(77)
os.execv(node, [node, *sys.argv[1:]])
