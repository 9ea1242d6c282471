"""Runs openai_client.mjs, if node and npm's openai are installed (in NODE_PATH, or a node_modules above the script)."""
import pathlib
import shutil
import subprocess
import sys

from server import Server, skip

if __name__ == "__main__":
    node = shutil.which("node") or skip("there is no node")
    with Server() as server:
        script = pathlib.Path(__file__).with_name("openai_client.mjs")
        status = subprocess.run([node, str(script), server.url], check=False).returncode
    sys.exit(status)
