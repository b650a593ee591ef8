"""What a page and a show cost in the image, in processor time, next to this checkout; `-s` prints the ratios."""

import sys
from collections.abc import Callable
from functools import partial
from statistics import median

import aiohttp

from bench import programs
from bench.paired import block
from tests.image.manifest_flags import pod_flags
from tests.image.site import PAGE, Site, address_of, get
from tests.packaging.manifests import PODS

_SETTINGS = {"BROKERAGE_ACCESS_LOG": "none", "BROKERAGE_SHARED_SECONDS": "0"}


async def test_page_and_show_cost_in_the_image(site: Site, key: str, amount: Callable[[int, int], int]) -> None:
    flags = [*pod_flags(PODS["brokerage"]), *(f"--env={name}={value}" for name, value in _SETTINGS.items())]
    host = programs.service(site.url, "", settings=_SETTINGS)
    with site.serving(*flags, arguments=["serve"]) as inside:
        url, pid = f"http://{address_of(inside)}", int(inside.inspect(".State.Pid"))
        _, page = get(address_of(inside), PAGE, key)
        show = f"/v1/listings/{page['Listings'][0]['PlatformListingId']}"
        async with host as outside, aiohttp.ClientSession(headers={"x-api-key": key}) as http:
            await outside.ready()
            for name, path, count in (("page of 25", PAGE, 60), ("show", show, 200)):
                arms = [partial(block, *arm, http, path, count) for arm in ((outside.pid, outside.url), (pid, url))]
                # The first round warms up.
                rounds = [[await arm() for arm in arms] for _ in range(amount(3, 25) + 1)][1:]
                ratio = median(ours / theirs for theirs, ours in rounds)
                print(f"\n{name}: image {ratio:.2f} times Python {sys.version.split()[0]} here")
                assert all(milliseconds > 0 for both in rounds for milliseconds in both)
