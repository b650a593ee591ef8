// Reads Property with the npm package @odata/client; prints what it gets as JSON.
import client from "@odata/client";

const service = client.OData.New4({
  serviceEndpoint: `${process.env.API_ROOT}/reso/`,
  commonHeaders: { "x-api-key": process.env.API_KEY },
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
console.log(JSON.stringify({ first, single, count: await properties.count(costly), refusal }));
