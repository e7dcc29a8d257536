"""A service that knows the countries of customers. Start it with ``python service.py``."""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

COUNTRIES = {"ann": "NO", "bob": "CH"}


class Customers(BaseHTTPRequestHandler):
    def do_GET(self):
        country = COUNTRIES.get(unquote(self.path.rpartition("/")[2]))
        self.send_response(200 if country else 404)
        self.end_headers()
        if country:
            self.wfile.write(json.dumps({"country": country}).encode())

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", 8099), Customers).serve_forever()
