"""The table of requests that both checkouts answer.

A row has columns, two spaces apart: the target, before it the method unless it is GET, after it headers, `@` and the
name of the key, and `> ` and a body. `[a|b]` is one row for each alternative, `{name}` a value: of VALUES, of the data
(`tests.golden.installation`) or the text of a key. Targets are percent-encoded when they are sent.
"""

# The options of `brokerage keys create`. The text of a key is the value `key_<name>`.
KEYS = {
    "all": "--all-companies --rate unlimited",
    "one": "--company evergreen-realty --rate unlimited",
    "parent": "--parent-company cascadia-holdings --rate unlimited",
    "two": "--company tidewater-brokers --company 4102 --rate unlimited",
    "restricted": "--all-companies --fields none --rate unlimited",
    "groups": "--all-companies --fields partner_data,goals --rate unlimited",
    "display": "--all-companies --display idx --rate unlimited",
    "compatible": "--all-companies --profile compatible --rate unlimited",
    "limited": "--all-companies --rate 1 --burst 3",
    "tier": "--all-companies --tier gold",
    "expired": "--all-companies --expires 2020-01-01",
    "revoked": "--all-companies",
}
READERS = ("all", "one", "parent", "two", "restricted", "groups", "display", "compatible")
RESO_READERS = ("all", "one", "restricted", "display")
VALUES = {
    "company": "evergreen-realty",
    "number": "4101",
    "sibling": "harbor-lane-homes",
    "other": "summit-crest",
    "parent": "cascadia-holdings",
    "parent_number": "4100",
    "never": "00000000-0000-4000-8000-000000000000",
    "wide": "platform_company_id=evergreen-realty&updated_since=1&market_status=all&page_size=5",
    "sold": "sold_since=1&page_size=5",
    "form": "application/x-www-form-urlencoded",
    "profile": "application/vnd.platform+json;version=1",
    "address": "[::1]:80",
    "long": "x" * 9_000,
    "hundred": "&".join(["x=1"] * 101),
}
# A token of each key for each of these views is taken before the updates: `{since}` is the one of the row's key.
TOKENS = {
    "since": "/v1/changes?page_size=1000",
    "since_company": "/v1/changes?page_size=1000&platform_company_id={company}",
    "since_on_market": "/v1/changes?page_size=1000&market_status=on-market",
    "since_deactivated": "/v1/changes?page_size=1000&include_deactivated=true",
}
# Asked with each of READERS, and in all forms: HEAD, the ETag, gzip, zstd, below /api, as a form body, media types.
RECORDS = """
/v1/listings?platform_company_id=[{company}|{number}|{sibling}|{other}|nowhere]
/v1/listings?{wide}[|&underscore_response=true|&timestamps_only=true|&underscore_response=1&timestamps_only=TRUE]
/v1/listings?{wide}&[coming_soon|only_agent_created]=true
/v1/listings?{wide}&[parent_company_id={parent}|property_types=[1|-1|1,2,3,4]]
/v1/listings?platform_company_id={number}&parent_company_id=[{parent}|{parent_number}|{other}]&updated_since=1
/v1/listings?platform_company_id={company}&updated_since=1&market_status=[on-market|off-market|all]&page_size=1000
/v1/listings?platform_company_id={company}&market_status=all&shared_partner_data_updated_since=[1|4000000000]
/v1/listings?{wide}&agent_uuid=[{agent}|{never}]
/v1/listings?{wide}&platform_agent_id=[{agent_mail}|{company}:{agent_number}|nobody]
/v1/listings?{wide}&[source_agent_id={agent_number}|platform_office_id={office}]
/v1/listings?{wide}&last_platform_listing_id={listing}&timestamps_only=true
/v1/listings/[{listing}|{odd}|{bare}|{exact}|{coming}|{withheld}|{hidden}|{moved}|{deleted}|{never}]
/v1/listings/{listing}?[underscore_response=true|platform_company_id={company}|parent_company_id={parent}]
/v1/listings/{listing}?[platform_listing_id={listing}|platform_listing_id={never}|platform_company_id={other}]
/v1/sold_listings[|?sold_since=1|?sold_before=4000000000&page_size=3|?updated_since=1&page_size=2]
/v1/sold_listings?{sold}[|&underscore_response=true|&timestamps_only=true|&underscore_response=1&timestamps_only=1]
/v1/sold_listings?{sold}&[platform_company_id=[{company}|{number}|nowhere]|parent_company_id={parent}]
/v1/sold_listings?{sold}&property_types=[1|-1|1,2]
/v1/sold_listings?{sold}&agent_uuid={seller}&include_buyer_listings=[true|false]
/v1/sold_listings?{sold}&platform_company_id={company}&source_agent_id={agent_number}
/v1/sold_listings?{sold}&platform_agent_id={agent_mail}&platform_office_id={office}
/v1/sold_listings?{sold}&last_platform_listing_id={sold_listing}
/v1/sold_listings/[{sold_listing}|{never}]
/v1/sold_listings/{sold_listing}?[platform_listing_id={sold_listing}|platform_company_id={company}]
/v1/[listings/[{listing}|{withheld}|{never}]|sold_listings/{sold_listing}]/history[|?underscore_response=true]
/v1/listings/{listing}/history?[platform_company_id={company}|platform_listing_id=[{listing}|{never}]]
/v1/sold_listings/{sold_listing}/history?[platform_company_id={company}|platform_listing_id={sold_listing}]
/v1/agents[|?updated_since=1|?updated_since=1&envelope=true|?updated_since=1&timestamps_only=true]
/v1/agents?updated_since=1&page_size=4&page_number=[1|2|100|25001]
/v1/agents?updated_since=1&[platform_company_id={company}|parent_company_id={parent}|platform_office_id={office}]
/v1/agents?deactivated=true[|&deactivated_since=1|&deactivated_since=1&timestamps_only=true]
/v1/agents?updated_since=1&page_size=6&include_[access_level|company_programs|partners|website|reviews|bio]=true
/v1/agents?updated_since=1&page_size=3&has_company_programs=true&include_company_programs=true
/v1/agents/[{agent}|{agent_mail}|{inactive}|{never}]
/v1/agents/{agent_number}?[platform_company_id={company}|parent_company_id={parent}|include_partners=true]
/v1/agents/{agent}?[parent_company_id={parent}|include_[access_level|gci_goals|partners|reviews]=true]
/v1/agents/{agent}?include_access_level=true&include_gci_goals=true&include_partners=true&include_reviews=true
/v1/offices[|?page_size=4&page_number=2|?timestamps_only=true|?platform_company_id={company}]
/v1/offices?[parent_company_id={parent}|deactivated=true|deactivated=true&deactivated_since=[1|4000000000]]
/v1/offices/[{office}|{closed}|{never}]
/v1/offices/{office}?[platform_company_id={company}|parent_company_id={parent}|platform_office_id={office}]
/v1/teams[|?page_number=1|?page_size=3&page_number=2|?platform_company_id={company}|?platform_company_id={other}]
/v1/teams/[{team}|{never}][|?platform_company_id={company}]
/v1/companies[|?page_number=1|?page_size=3&page_number=2]
/v1/companies/[{company}|{number}|{other}|nowhere]
"""
# Asked with each of READERS; like RESO and OPEN also with HEAD, the ETag, gzip and zstd.
FEED = """
/v1/changes[|?page_size=7|?resources=teams,offices|?underscore_response=true&resources=listings&page_size=3]
/v1/changes?since={since}[|&page_size=2|&resources=listings,agents|&underscore_response=true|&wait=0]
/v1/changes?since={since}&changed=[price,status|details|prices|price,price][|&underscore_response=true]
/v1/changes?changed=[status|commission,price]&page_size=7
/v1/changes?since={since_company}&platform_company_id={company}
/v1/changes?since={since_on_market}&market_status=on-market
/v1/changes?since={since_deactivated}&include_deactivated=true
/v1/changes?platform_company_id={number}&page_size=2[|&parent_company_id={parent}]
/v1/changes?since=[{since},{since}|{since_company}|nothing|AgAAAAAAAA]
/v1/snapshot/[listings|sold_listings|agents|offices|teams|companies|houses]?parent_company_id={parent}
/v1/snapshot/listings?platform_company_id={company}[|&underscore_response=true|&market_status=on-market]
/v1/snapshot/listings?after={company}:{listing}&platform_company_id={company}
/v1/snapshot/[agents|offices]?include_deactivated=true
/v1/digest/[listings|sold_listings|agents|offices|teams|companies|houses]
/v1/digest/listings?[platform_company_id={company}|parent_company_id={parent}|market_status=on-market]
/v1/digest/agents?[include_deactivated=true|underscore_response=true|prefixes=[00,{two_digits}|{four_digits},0000|a]]
/v1/exports/[listings|agents|teams|companies|houses]?platform_company_id={company}
/v1/exports/listings?platform_company_id={company}&since=[{since_company}|{since}|nothing]
/v1/exports/listings[|?parent_company_id={parent}|?platform_company_id={number}&parent_company_id={parent}]
/v1/exports/listings/[{file}|{parquet}|{change_file}|{manifest}|nothing.parquet]?platform_company_id={company}
/v1/exports/listings/{file}?parent_company_id={parent}&platform_company_id={number}
"""
# Asked with each of RESO_READERS for each entity set: `{id}` is the property of its key, `{key}` the key of a row.
ENTITIES = """
/v1/reso/{set}?$top=[0|3]
/v1/reso/{set}?$top=5&$count=true&$orderby={id} [asc|desc]
/v1/reso/{set}?$skip=[1|10000|10001]&$top=2&$select={id}
/v1/reso/{set}?$filter={id} [eq|ne|ge|lt] '{key}'&$top=2
/v1/reso/{set}?$filter={id} in ('{key}','nothing') and not ({id} eq null)&$format=[json|xml|atom]
/v1/reso/{set}/$count[|?$filter={id} eq '{key}']
/v1/reso/{set}('[{key}|nothing]')
/v1/reso/{set}({id}='{key}')[|?$select={id}|/{id}|/Nothing]
/v1/reso/{set}?[$apply=aggregate($count as n)|$search=x|$compute=1|$expand=Media|$skiptoken=abc|$nothing=1|x=1]
/v1/reso/{set}?[$select=Nothing|$orderby=Nothing|$filter=Nothing eq 1|$filter={id} eq|$top=-1|$skip=x|$count=maybe]
"""
# Each property of each entity set; `{value}` is one that it has.
PROPERTIES = """
/v1/reso/{set}?$top=2&$select={name}&$filter={name} [eq null|[eq|ge] {value}]
/v1/reso/{set}?$top=2&$select={name}&$orderby={name} desc
/v1/reso/{set}('{key}')/{name}
"""
RESO = """
/v1/reso[|?$format=json|?$format=xml|?$format=application/json;odata.metadata=none]
/v1/reso/$metadata[|?$format=xml|?$format=json|?$format=atom]
/v1/reso/Property?$expand=Media,OpenHouses,OpenHouse,ListAgent,CoListAgent,BuyerAgent,ListOffice,BuyerOffice&$top=4
/v1/reso/Property?$expand=Media($select=MediaURL,Order),ListAgent($select=MemberFullName)&$select=City&$top=3
/v1/reso/Property('{listing}')?$expand=[Media|ListAgent,ListOffice|Media($top=1)|Nothing|Media/x]
/v1/reso/Property('[{listing}|nothing]')/[Media|Media/$count|Media?$top=1&$count=true|ListAgent|BuyerOffice]
/v1/reso/Property?$top=3&$select=City,Media[|&$expand=Media($select=Order)]
/v1/reso/Property?$top=3&$select=ListPrice,City&$filter=[ListPrice ge 400000.5 and BedroomsTotal lt 4|City eq 'Kent']
/v1/reso/Property?$top=3&$select=City&$filter=[startswith(City,'Ken')|endswith(City,'t')|contains(tolower(City),'ken')]
/v1/reso/Property?$top=3&$select=City&$filter=[year(CloseDate) eq 2025|date(ModificationTimestamp) lt 2040-01-01]
/v1/reso/Property?$top=3&$select=City&$filter=[ModificationTimestamp lt now()|year(ModificationTimestamp) gt 2000]
/v1/reso/Property?$top=3&$select=City&$filter=StandardStatus [in ('Active','Pending')|has 'Active'|eq 'Closed']
/v1/reso/Property?$top=3&$select=Heating&$filter=Heating/[any()|any(h:h eq 'Gas')|all(h:h ne 'Oil')|any(h:h lt 'x')]
/v1/reso/Property?$top=3&$select=City&$filter=[not (City eq 'Kent' or City eq null)|ListPrice add 1 gt 5|City gt 5]
/v1/reso/Property?$top=5&$select=City,ListPrice&$orderby=[City,ListPrice desc|ListPrice asc,ListingKey|City,City]
/v1/reso/EntityEvent[|?$top=3|?$count=true&$top=2|?$orderby=EntityEventSequence desc&$top=4|?$skip=3&$top=2]
/v1/reso/EntityEvent?$filter=EntityEventSequence [gt 0|gt {event}|lt {event}|gt 9007199254740991]&$top=5
/v1/reso/EntityEvent?$filter=ResourceName eq '[Property|Member]'&$select=ResourceRecordKey&$top=3
/v1/reso/EntityEvent?$filter=ResourceRecordKey eq '[{listing}|{moved}|{deleted}]'
/v1/reso/EntityEvent[({event})|('{event}')|(EntityEventSequence={event})|(7)|/$count]
/v1/reso/[Nothing|Property/x/y|Property('a')('b')]
"""
OPEN = """
[/|/v1|/api|/v1/openapi.json|/livez|/readyz|/startupz|/llms.txt|/.well-known/api-catalog|/.well-known/security.txt]
/readyz?verbose[|=1|=true|=no]
/[docs/|docs//keys|docs/nothing|docs/assets/nothing.css|favicon.ico|robots.txt|nothing|v2/listings]
"""
# Headers, ways to send a key, bodies, and what is refused.
HEADERS = """
[/v1/listings/{listing}|/v1/reso/Office|/|/v1]  @all  Accept: [*/*|text/html|x|application/*;q=0.1|image/*]
/v1/listings?{wide}  @all  Accept: application/geo+json[|, application/json|;q=0.5, application/json;q=0.1|;q=x]
/v1/listings?{wide}&timestamps_only=true  @all  Accept: application/geo+json
/v1/reso/Office  @all  Accept: application/json;[metadata=none|metadata=full|IEEE754Compatible=true|charset=utf-8]
/v1/reso/$metadata  @all  Accept: application/[json|xml|atom+xml|json, application/xml;q=0.9][|  OData-MaxVersion: 4.0]
/v1/reso/Office  @all  [OData-MaxVersion: [3.0|4.0|4.01|x]|OData-Version: [3.0|4.0|4.01|5.0]]
/v1/reso/Office  @all  Prefer: [maxpagesize=2|odata.maxpagesize=3, x|maxpagesize=0|maxpagesize="5000"|nothing]
[/v1/listings?{wide}|/docs|/v1/snapshot/teams]  @all  Accept-Encoding: [*|gzip;q=0.5, zstd|identity;q=0, *;q=0|x-gzip]
[/v1/listings?{wide}|/docs|/v1/companies]  @all  If-None-Match: [*|"x"|W/"x", "y"|x]
{to_file}  @all  Range: bytes=[0-99|100-|-50|99999999-|-0|5-2|0-1,4-5|x][|  If-Range: "x"|  Accept-Encoding: gzip]
HEAD  {to_file}  @all  Range: bytes=[0-99|99999999-]
{to_file}  @all  If-Match: [*|"x"|"x", *][|  Range: bytes=0-9]
[GET|OPTIONS]  /v1/teams  @all  Origin: https://[portal|other].example[|  Access-Control-Request-Method: GET]
/v1/nothing  Origin: https://portal.example
[/v1/reso/Office|/v1/reso/EntityEvent?$top=1|/llms.txt|/.well-known/security.txt]  @all  Host: [x y|{address}|h:1|]
[/v1/reso/Office|/llms.txt|/.well-known/api-catalog]  @all  X-Forwarded-Proto: [https|x]  X-Forwarded-Host: a:8443, b
/v1/companies?api-key=[|x|{key_revoked}|{key_all}]
[/v1/companies|/v1/reso/Office|/v1/exports/teams|{to_file}]  x-api-key: [x|bk_|{key_expired}|{key_revoked}|{key_all}x]
[/v1/companies|/v1/reso/Office|/v1/exports/teams|{to_file}]  Authorization: [Bearer {key_all}|Bearer x|Basic x|Digest x]
/[v1|api]/companies  Authorization: Basic [{basic_all}|{basic_compatible}|{basic_wrong}|x][|  Accept: {profile}]
[/v1/companies|/v1/nothing/{key_all}|/v1/listings/{key_all}|/v1/teams?page_size={key_all}|/v1/reso/{key_all}]
[/v1/nothing/{key_all}|/v1/listings/{key_all}|/v1/teams?page_size={key_all}|/v1/reso/Office('{key_all}')]  @all
/v1/listings?{wide}&api-key={key_all}
/v1/companies?api-key={key_all}  @[all|one]
/v1/companies  x-api-key: {key_all}  x-api-key: {key_one}
/[v1|api]/companies  @[all|compatible]  Content-Type: [{form}|text/plain]  > [page_size=2|page_size=ü]
[/docs|/v1/reso/Office|/v1/nothing]  @compatible  Content-Type: {form}  > page_size=2
/api/companies?page_size=[2&page_size=2|2&page_size=3|&x=1|2&api-key={key_compatible}]  @compatible
/api/agents?updated_since=1[&envelope=false|&nothing=1&page_size=2]  @compatible
/api/[agents/{agent}|teams/{team}|companies/x]?[agent_uuid={agent}|platform_[team_id={team}|company_id=x]]  @compatible
/api/[companies|nothing|listings/{never}|exports/teams]  @[all|compatible]
[POST|GET|OPTIONS]  /v1/reso/$batch  @all
/v1/reso/  @all
/v1/companies  @tier
[/v1/companies|/v1/reso/Office|/docs]?[page_size={long}|{hundred}|page_size=%|page_size=%FF|{long}=1]  @all
/v1/reso/Office?$filter=OfficeKey eq '{long}{long}'  @all
/v1/listings/[%00|%C3%28|%|{long}|a%2Fb|..|%2e%2e|(x)|%E2%80%A8]  @all
"""
_HOST = "\r\nHost: golden.example"
# The bytes of requests that are not valid HTTP, or just so.
RAW = {
    "no host": "GET /v1/companies HTTP/1.1",
    "two hosts": f"GET /v1/companies HTTP/1.1{_HOST}{_HOST}",
    "a space": f"GET /v1/comp anies HTTP/1.1{_HOST}",
    "another character": f"GET /v1/ü HTTP/1.1{_HOST}",
    "a fragment": f"GET /v1/companies#x HTTP/1.1{_HOST}",
    "the whole URL": f"GET http://golden.example/v1/companies HTTP/1.1{_HOST}",
    **{f"HTTP/{version}": f"GET /livez HTTP/{version}{_HOST}" for version in ("0.9", "1.0", "1.2", "2.0", "x")},
    **{f"method {name}": f"{name} /livez HTTP/1.1{_HOST}" for name in ("get", "CONNECT", "TRACE", "G@T", "POST")},
    "all of a server": f"OPTIONS * HTTP/1.1{_HOST}",
    "no request": "x",
    "a header without a colon": f"GET /livez HTTP/1.1{_HOST}\r\nx",
    "another expectation": f"GET /v1/companies HTTP/1.1{_HOST}\r\nExpect: x",
    "expects to continue": f"GET /livez HTTP/1.1{_HOST}\r\nExpect: 100-continue",
    "a length": f"GET /livez HTTP/1.1{_HOST}\r\nContent-Length: x",
    "chunks": f"GET /livez HTTP/1.1{_HOST}\r\nTransfer-Encoding: chunked",
    "a long line": f"GET /{'x' * 70_000} HTTP/1.1{_HOST}",
    "a long header": f"GET /livez HTTP/1.1{_HOST}\r\nx: {'x' * 8_200}",
    "many headers": f"GET /livez HTTP/1.1{_HOST}" + "\r\nx: x" * 70,
    "large headers": f"GET /livez HTTP/1.1{_HOST}" + f"\r\ny: {'y' * 6_000}" * 3,
}
# Asked of services with other settings; by a key of three requests a minute, and without a key from two addresses.
OTHERWISE = """
/v1/[companies|agents?updated_since=1|teams]?nothing=1&other=2  @all  Origin: https://any.example
/[.well-known/security.txt|llms.txt|v1/openapi.json|docs|readyz?verbose|v1/exports/teams?platform_company_id=4101]  @all
/v1/teams  x-api-key: [1|2|3|4]
/v1/companies  @limited
/v1/listings/{never}  @limited  If-None-Match: *
HEAD  /v1/companies  @limited
[/v1/companies|/v1/reso/Office|/docs]  @limited
/v1/[teams|teams|teams|reso/Office]  X-Forwarded-For: 203.0.113.[7|7|8]
"""
# The second while the first is in progress, then while the node does not respond; then the last while it has ended.
HELD = """
/v1/changes?since={since}&resources=teams&wait=20  @all
/v1/listings?{wide}  @all
"""
STOPPED = """
/v1/[listings?{wide}|listings/{listing}|agents|companies|changes|snapshot/teams|digest/teams|reso/Office]  @all
/[livez|startupz|v1/openapi.json|docs/keys|v1/reso|v1/reso/Office/$count]  @all
"""
# Asked of an installation that has companies alone.
EMPTY = """
/v1/[listings?platform_company_id=x|listings/x|sold_listings|agents|agents/x|offices|teams|companies|companies/x]  @all
/v1/[changes|snapshot/teams|snapshot/companies|digest/teams|exports/teams?platform_company_id=x]  @all
/v1/reso[|/Property|/Media|/Property('x')|/Member/$count|/EntityEvent|/Lookup?$top=1]  @all
/readyz[|?verbose]
"""
# Asked of an installation that has nothing.
NOTHING = "/v1/[companies|listings/x|changes]  @all"
# No request provokes these.
UNPROVOKED = {"internal-error"}
