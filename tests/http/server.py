"""A web server whose every answer can be wrong.

`Server.files` maps paths to bytes. `Server.fault`, called with each Request, returns None for a correct answer, the name of a
method `fault_NAME`, or a function of (connection, request) that answers itself. `Server.requests` has all requests.
SPDX-License-Identifier: Apache-2.0
"""
import contextlib
import dataclasses
import hashlib
import re
import socket
import ssl
import struct
import threading
import time
import urllib.parse


@dataclasses.dataclass
class Request:
    method: str
    target: str
    headers: dict
    number: int

    @property
    def path(self):
        return urllib.parse.unquote(self.target.partition("?")[0])

    @property
    def range(self):
        found = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("range", ""))
        return (int(found[1]), int(found[2])) if found else None


class Closed(Exception):
    pass


class Server:
    def __init__(self, tls=None, delay=0.0):
        self.files, self.requests, self.connections, self.delay = {}, [], 0, delay
        self.etags = {}
        self.fault = lambda request: None
        self.bodies = 0  # bytes of them that were sent
        self.piece, self.pause = 1 << 20, 0.0  # bytes that are sent at once, and seconds after each
        self.lock = threading.Lock()
        self.tls = tls
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = self.listener.getsockname()[1]
        self.stopped = threading.Event()
        self.accepting = self.start()

    def start(self):
        thread = threading.Thread(target=self.accept, daemon=True)
        thread.start()
        return thread

    def url(self, path="/m.safetensors", query="?sig=topsecret"):
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}{path}{query}"

    def stop(self):
        """Also ends the thread: after a signal, it would accept connections of the next listener with the same descriptor."""
        self.stopped.set()
        with contextlib.suppress(OSError):  # restart() has closed it
            self.listener.shutdown(socket.SHUT_RDWR)  # close() would not wake the thread
        self.accepting.join(10)
        self.listener.close()

    def restart(self, seconds):
        """Refuses connections for some time."""
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

        def begin():
            if self.stopped.is_set():
                return
            self.listener = socket.create_server(("127.0.0.1", self.port), backlog=256)
            self.accepting = self.start()
        timer = threading.Timer(seconds, begin)
        timer.daemon = True
        timer.start()

    def accept(self):
        listener = self.listener
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with self.lock:
                self.connections += 1
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.pause:  # what it has sent, and the client has not read, would be lost
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 << 10)
            if self.tls:
                connection = self.tls.wrap_socket(connection, server_side=True)
            buffered = b""
            while True:
                while b"\r\n\r\n" not in buffered:
                    more = connection.recv(65536)
                    if not more:
                        return
                    buffered += more
                text, _, buffered = buffered.partition(b"\r\n\r\n")
                self.answer(connection, text.decode("latin-1"))
        except (OSError, Closed):
            pass
        finally:
            connection.close()

    def answer(self, connection, text):
        first, *lines = text.split("\r\n")
        method, target, _ = first.split(" ")
        headers = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        with self.lock:
            request = Request(method, target, headers, len(self.requests))
            self.requests.append(request)
        if self.delay:
            time.sleep(self.delay)
        fault = self.fault(request)
        if fault is None:
            return self.correct(connection, request)
        if isinstance(fault, str):
            fault = getattr(self, "fault_" + fault)
        fault(connection, request)

    def etag(self, path):
        if path not in self.etags:
            self.etags[path] = '"%s"' % hashlib.md5(self.files[path]).hexdigest()
        return self.etags[path]

    def send(self, connection, status, headers, body=b""):
        lines = [f"HTTP/1.1 {status} X"] + [f"{name}: {value}" for name, value in headers.items() if value is not None]
        connection.sendall("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n")
        for at in range(0, len(body), self.piece):
            part = body[at:at + self.piece]
            with self.lock:
                self.bodies += len(part)
            connection.sendall(part)
            if self.pause:
                time.sleep(self.pause)

    def correct(self, connection, request, change=None, body=None):
        data = self.files.get(request.path)
        if data is None or request.method != "GET":
            return self.send(connection, 404, {"Content-Length": 6}, b"absent")
        if request.headers.get("if-match", self.etag(request.path)) != self.etag(request.path):
            return self.send(connection, 412, {"Content-Length": 0})
        first, last = request.range or (0, len(data) - 1)
        if first >= len(data):
            return self.send(connection, 416, {"Content-Range": f"bytes */{len(data)}", "Content-Length": 0})
        part = memoryview(data)[first:last + 1]
        headers = {"ETag": self.etag(request.path), "Content-Length": len(part),
                   "Content-Range": f"bytes {first}-{first + len(part) - 1}/{len(data)}"}
        headers.update(change or {})
        self.send(connection, 206, headers, part if body is None else body(bytes(part)))

    # ---- faults ------------------------------------------------------------------------------------------------------

    def fault_503(self, connection, request):
        self.send(connection, 503, {"Content-Length": 4}, b"busy")

    def fault_429(self, connection, request):
        self.send(connection, 429, {"Content-Length": 0, "Retry-After": 1})

    def fault_500(self, connection, request):
        self.send(connection, 500, {"Content-Length": 0})

    def fault_reset(self, connection, request):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
        raise Closed

    def fault_short(self, connection, request):
        self.correct(connection, request, body=lambda part: part[:len(part) // 2])
        raise Closed

    def fault_reset_within(self, connection, request):
        self.correct(connection, request, body=lambda part: part[:len(part) // 3])
        self.fault_reset(connection, request)

    def fault_stall(self, connection, request):
        self.correct(connection, request, body=lambda part: part[:len(part) // 2])
        self.stopped.wait(60)
        raise Closed

    def fault_silence(self, connection, request):
        self.stopped.wait(60)
        raise Closed

    def fault_whole(self, connection, request):
        data = self.files[request.path]
        self.send(connection, 200, {"Content-Length": len(data), "ETag": self.etag(request.path)}, data)

    def fault_endless_header(self, connection, request):
        connection.sendall(b"HTTP/1.1 206 X\r\n")
        while not self.stopped.is_set():
            connection.sendall(b"X-Filler: " + b"y" * 1000 + b"\r\n")

    def fault_endless_line(self, connection, request):
        connection.sendall(b"HTTP/1.1 206 X\r\nX-Filler: ")
        while not self.stopped.is_set():
            connection.sendall(b"y" * 65536)

    def fault_endless_100(self, connection, request):
        while not self.stopped.is_set():
            connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)

    def fault_drip(self, connection, request):
        def drip(part):
            return b""
        self.correct(connection, request, body=drip)
        first, _ = request.range
        for byte in self.files[request.path][first:]:
            if self.stopped.wait(0.2):
                break
            connection.sendall(bytes([byte]))
        raise Closed

    def fault_more(self, connection, request):
        self.correct(connection, request, change={"Content-Length": None}, body=lambda part: part + b"and more")
        raise Closed


def redirect(to, status=302, body=b""):
    def answer(connection, request):
        Server.send(_NOBODY, connection, status, {"Location": to, "Content-Length": len(body)}, body)
    return answer


class _Nobody:
    lock, bodies, piece, pause = threading.Lock(), 0, 1 << 20, 0.0


_NOBODY = _Nobody()


def tls_context(certificate, key):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context
