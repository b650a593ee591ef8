"""The kit of chaos, disasters and siege: what is broken, who reads meanwhile, what is true, and the report.

| what | where |
|---|---|
| nodes that are killed, frozen, added; services as processes; what they use | `nodes`, `services`, `usage` |
| a service with readers, each page of which is judged; the requests, the verdict | `scenario`, `readers`, `requests` |
| what a feed must return, of a source that rests or changes; that source | `oracle`, `history` |
| copies kept by a snapshot and its changes | `copies` |
| records whose history a state machine chooses, and an indexer that it pauses | `model`, `control` |
| results of runs, and the page that shows them | `results` |

`test_kit` is the smallest scenario. Proxies that break connections are in `tests.network`.
"""
