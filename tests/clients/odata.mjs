// Reads with the npm package @odata/client, which signs in with a user name and a password; prints it as JSON.
import client from "@odata/client";

const service = client.OData.New4({
  serviceEndpoint: `${process.env.API_ROOT}/reso/`,
  credential: { username: process.env.API_KEY.slice(3, 13), password: process.env.API_KEY.slice(14) },
});
const properties = service.getEntitySet("Property");
const costly = properties.newFilter().property("ListPrice").ge(500000);
const options = properties.newOptions();
const first = await properties.query(
  options.filter(costly).select(["ListingKey", "ListPrice"]).orderby("ListPrice", "desc").top(5).skip(1),
);
const single = await properties.retrieve(first[0].ListingKey);
let refusal = "";
try {
  await properties.query(properties.newFilter().property("UnparsedAddress").eq("x"));
} catch (error) {
  refusal = error.message;
}
// Every entity set to its end, by $skip and $top: this client does not follow next links.
const keys = {};
for (const [name, key] of Object.entries(JSON.parse(process.env.ENTITY_SETS))) {
  keys[name] = [];
  for (let page; page?.length !== 0; keys[name].push(...page)) {
    const part = properties.newOptions().orderby(key, "asc").select([key]).top(500).skip(keys[name].length);
    page = (await service.getEntitySet(name).query(part)).map((row) => row[key]);
  }
}
console.log(JSON.stringify({ first, single, count: await properties.count(costly), refusal, keys }));
