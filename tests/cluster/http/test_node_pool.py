"""The choice of a node: fewest requests in flight, among those that respond; a recovering node is probed with one."""

import asyncio
from collections import Counter

import pytest
from elastic_transport import ConnectionError as NodeConnectionError
from elastic_transport import NodeConfig

from cluster.http.nodes import LeastRequestsPool, ReadingNode
from tests.cluster.http.http_responses import with_length
from tests.cluster.http.node_choice import HEADERS, answer_with_name, choose_among, short_ticks
from tests.internals import let_be_silent
from tests.loops import on_each_loop
from tests.network.server import Connection, Server
from tests.waiting import until

__all__ = ["short_ticks"]


def pool(*in_flight: int) -> tuple[LeastRequestsPool, list[ReadingNode]]:
    """Return nodes with so many requests in flight, in order."""
    configs = [NodeConfig("http", "127.0.0.1", 9200 + at) for at in range(len(in_flight))]
    made = LeastRequestsPool(configs, ReadingNode, randomize_nodes=False)
    nodes = [node for node in made.all() if isinstance(node, ReadingNode)]
    for node, count in zip(nodes, in_flight, strict=True):
        node.health.in_flight = {asyncio.Timeout(None) for _ in range(count)}
    return made, nodes


def test_the_node_with_the_fewest_requests_in_flight_is_chosen() -> None:
    made, nodes = pool(4, 1, 3)
    assert {made.get() for _ in range(50)} == {nodes[1]}


def test_equal_nodes_share_the_requests() -> None:
    made, _ = pool(2, 2, 2)
    taken = Counter(made.get().port for _ in range(300))
    assert len(taken) == 3
    assert min(taken.values()) > 30


def test_a_silent_node_is_taken_only_where_all_are() -> None:
    made, nodes = pool(0, 90, 70)
    let_be_silent(nodes[0].health)
    assert made.get() is nodes[2]
    let_be_silent(nodes[2].health)
    assert made.get() is nodes[1]
    let_be_silent(nodes[1].health)
    assert made.get() is nodes[0]


def test_a_node_that_failed_comes_after_all_that_did_not_and_before_a_silent_one() -> None:
    made, nodes = pool(0, 5, 9)
    let_be_silent(nodes[0].health)
    nodes[1].health.is_healthy = False
    assert made.get() is nodes[2]
    let_be_silent(nodes[2].health)
    assert made.get() is nodes[1]


def test_a_node_that_is_back_is_tried_with_one_request() -> None:
    made, nodes = pool(0, 5)
    nodes[0].health._is_trusted = False
    assert made.get() is nodes[0]
    nodes[0].health.in_flight.add(asyncio.Timeout(None))
    assert made.get() is nodes[1]
    nodes[0].health.request_succeeded()
    assert made.get() is nodes[0]


def test_a_single_node_is_taken_however_it_is() -> None:
    made, nodes = pool(3)
    let_be_silent(nodes[0].health)
    assert made.get() is nodes[0]


@on_each_loop
async def test_a_slow_node_does_not_collect_the_requests() -> None:
    async with choose_among(
        answer_with_name("slow", after=0.1), answer_with_name("b"), answer_with_name("c")
    ) as choice:

        async def reader() -> list[str]:
            return [await choice.ask() for _ in range(25)]

        counted = Counter(name for names in await asyncio.gather(*(reader() for _ in range(6))) for name in names)
        # Round robin would give it a third.
        assert counted["slow"] < 0.15 * counted.total()
        assert min(counted["b"], counted["c"]) > 0.2 * counted.total()


# Where a failing node is preferred, the other one is slower than a busy machine makes either.
@pytest.mark.parametrize(
    ("status", "after", "is_put_away"), [(b"503 x", 0.02, True), (b"502 x", 0.02, True), (b"429 x", 0.15, False)]
)
@on_each_loop
async def test_a_node_out_of_service_does_not_draw_all_requests_by_failing_fast(
    status: bytes, after: float, is_put_away: bool
) -> None:
    async with choose_among(answer_with_name("out", status=status), answer_with_name("slower", after=after)) as choice:

        async def reader() -> list[str]:
            return [await choice.ask() for _ in range(20)]

        counted = Counter(name for names in await asyncio.gather(*(reader() for _ in range(8))) for name in names)
        assert (counted["out"] < counted["slower"]) is is_put_away


@on_each_loop
async def test_a_lost_node_costs_only_the_requests_in_flight() -> None:
    async def script(connection: Connection) -> None:
        while len(connection.server.requests) < 20:
            await connection.request()
            if len(connection.server.requests) < 20:
                await connection.send(with_length(b"1", *HEADERS))
        await lose(connection.server)

    async def lose(server: Server) -> None:
        server.refuse()
        for task in server.tasks - {asyncio.current_task()}:
            task.cancel()

    async with choose_among(script, answer_with_name("b"), answer_with_name("c")) as choice:
        failed = 0

        async def reader() -> None:
            nonlocal failed
            for _ in range(60):
                try:
                    await choice.ask()
                except NodeConnectionError:
                    failed += 1
                await asyncio.sleep(0.005)

        await asyncio.gather(*(reader() for _ in range(10)))
        assert 1 <= failed <= 10
        assert choice.node(0).health.penalty >= 2
        choice.servers[0].script = answer_with_name("back")
        await choice.servers[0].start()
        await until(lambda: choice.node(0).health.is_healthy)
        assert "back" in {await choice.ask() for _ in range(50)}


@on_each_loop
async def test_connections_that_a_restarted_server_has_closed_cost_no_request() -> None:
    arrived = asyncio.Barrier(16)

    async def script(connection: Connection) -> None:
        await connection.request()
        await arrived.wait()
        await connection.send(with_length(b"1", *HEADERS))
        await connection.reader.read()

    async with choose_among(script) as choice:
        (server,) = choice.servers
        asking = [asyncio.create_task(choice.ask(target="/")) for _ in range(16)]
        await asyncio.gather(*asking)
        server.refuse()
        await server.stop()
        server.script = answer_with_name("back")
        await server.start()
        assert await asyncio.gather(*(choice.ask() for _ in range(40))) == ["back"] * 40
