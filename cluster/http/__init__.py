"""HTTP/1.1 under the Elasticsearch client, which copies no body and fails over from frozen nodes.

With the client's own node on aiohttp instead, a page takes 1.10 to 1.16 times as long and a single record 1.15 to 1.55
times; the service spends 1.19 to 1.33 times the CPU time on them (decision 16; decision 6 has the design).
"""
