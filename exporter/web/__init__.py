"""What stands between a connection and a page: TLS, passwords, limits, formats, the landing page.

config.py     the file of --web.config.file, in the format of Prometheus's exporter-toolkit
live.py       that file and its certificates, read anew when they change
tls.py        to an SSLContext            auth.py      passwords
limit.py      a token bucket              formats.py   Accept, Accept-Encoding
landing.py    the page for people
"""
