"""The requests of each arm as bytes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.arms import RAW, Arm
from bench.client import Pool, get, post
from bench.options import Options
from bench.questions import QUESTIONS, Variety, target, variety
from bench.tap import Heard, Tap


class Absent(Exception):
    """An arm that cannot be measured here; the message says why."""


@dataclass(frozen=True)
class Template:
    """The bytes of a request to a server, and how one request differs from the next."""

    server: str
    request: bytes
    variety: Variety | None
    encoding: str
    records: int  # listings that an answer holds at least

    def requests(self, seed: str, count: int) -> list[bytes]:
        """Return `count` requests; the same seed asks every arm of a depth for the same."""
        if self.variety is None:
            return [self.request] * count
        values = self.variety.values(seed, count)
        return [self.request.replace(self.variety.sentinel, value) for value in values]


@dataclass(frozen=True)
class Templates:
    """Makes templates. `servers` are addresses by who answers, `heard` what the service asks for a question."""

    options: Options
    servers: Mapping[str, str]
    heard: Mapping[str, Heard]
    key: str
    identifiers: Sequence[str]

    def of(self, arm: Arm) -> Template:
        """Return the template of an arm; raise Absent if no server can respond to it."""
        if arm.answers not in self.servers:
            raise Absent(f"{arm.answers} does not run here")
        records = {"page": self.options.page, "large page": self.options.large_page}.get(arm.question, 0)
        server, differing = self.servers[arm.answers], variety(arm, self.identifiers)
        return Template(server, self._request(arm), differing, arm.encoding, records)

    def _request(self, arm: Arm) -> bytes:
        server = self.servers[arm.answers]
        if arm.answers == RAW:
            asked = self._asked(arm.question)
            return post(server, asked.target, asked.body) if asked.body else get(server, asked.target)
        headers = {"x-api-key": self.key, "Accept-Encoding": arm.encoding}
        return get(server, target(arm.question, self.options, self.identifiers[0]), headers)

    def _asked(self, question: str) -> Heard:
        if question not in self.heard:
            raise Absent("the service does not ask this in one request")
        return self.heard[question]


async def overhear(templates: Templates, tap: Tap, service: str) -> dict[str, Heard]:
    """Send each question once to the service behind the tap; return the searches that it sent."""
    found: dict[str, Heard] = {}
    pool = Pool()
    try:
        [connection] = await pool.take(service, 1)
        for name, question in QUESTIONS.items():
            # The keys and companies that the service reads at first are asked of other indices.
            since = len(tap.heard)
            address = target(name, templates.options, templates.identifiers[0])
            await connection.fetch(get(service, address, {"x-api-key": templates.key}))
            asked = tap.of(templates.options.prefix + question.resource, since)
            if len(asked) == 1:
                found[name] = asked[0]
    finally:
        pool.close()
    return found
