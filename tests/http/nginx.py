"""Runs nginx with TLS on this machine: its certificate, its configuration, and its log.
SPDX-License-Identifier: Apache-2.0
"""
import pathlib
import shutil
import socket
import subprocess
import time

CONFIGURATION = """
daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log;
events {{ worker_connections 512; }}
http {{
  access_log {folder}/access.log; sendfile on; keepalive_requests 100000;
  client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2; fastcgi_temp_path {folder}/t3;
  uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5;
  server {{
    listen 127.0.0.1:{port} ssl; ssl_certificate {folder}/cert.pem; ssl_certificate_key {folder}/key.pem;
    root {folder}/files;
  }}
}}
"""


def program():
    return shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")


def missing():
    """Why it cannot run here; empty if it can."""
    if not program():
        return "nginx is not installed (Debian: nginx-light)"
    return "" if shutil.which("openssl") else "the command openssl is not installed"


def make_certificate(folder, names="IP:127.0.0.1,DNS:localhost"):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                    "-addext", f"subjectAltName={names}", "-keyout", folder / "key.pem", "-out",
                    folder / "cert.pem"], check=True, capture_output=True)


class Nginx:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.files = self.folder / "files"
        self.files.mkdir(exist_ok=True)
        make_certificate(self.folder)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        (self.folder / "nginx.conf").write_text(CONFIGURATION.format(folder=self.folder, port=self.port))
        self.process = subprocess.Popen([program(), "-p", self.folder, "-e", self.folder / "error.log", "-c",
                                         self.folder / "nginx.conf"], stderr=subprocess.DEVNULL)
        for _ in range(600):
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                break
            except OSError:
                time.sleep(0.05)
        self.ca_file = str(self.folder / "cert.pem").encode()

    def url(self, name):
        return f"https://127.0.0.1:{self.port}/{name}"

    def log(self):
        time.sleep(0.2)  # it writes an entry after the response
        return (self.folder / "access.log").read_text().splitlines()

    def stop(self):
        self.process.terminate()
        self.process.wait()
