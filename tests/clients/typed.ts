// Uses that must have types. Every line behind an `@ts-expect-error` is wrong, and the compiler has to say so.
import createClient from "openapi-fetch";
import type { components, paths } from "./brokerage.js";

const client = createClient<paths>({ baseUrl: "http://localhost/v1" });
const company = { platform_company_id: "a" };

export async function rightUses(): Promise<(string | null)[]> {
  const { data, error } = await client.GET("/offices", { params: { query: { page_number: 1 } } });
  if (error) return error.errors.map((fault) => fault.parameter);
  const office = (data as components["schemas"]["OfficePage"]).offices[0];
  const { data: listing } = await client.GET("/listings/{platform_listing_id}", {
    params: { path: { platform_listing_id: "L1" } },
  });
  const shown = listing as components["schemas"]["ListingShow"];
  return [office?.name ?? null, shown.SharedPartnerData?.attribute_1 ?? null, shown.Status, shown.PlatformListingId];
}

export async function wrongUses(): Promise<unknown[]> {
  // @ts-expect-error: there is no such path.
  const nowhere = await client.GET("/houses");
  // @ts-expect-error: the company is required.
  const nobodys = await client.GET("/listings", { params: { query: {} } });
  // @ts-expect-error: a number is no text.
  const counted = await client.GET("/listings", { params: { query: { ...company, page_size: "7" } } });
  // @ts-expect-error: no value of the parameter.
  const sideways = await client.GET("/listings", { params: { query: { ...company, market_status: "sideways" } } });
  const { data: team } = await client.GET("/teams/{platform_team_id}", {
    params: { path: { platform_team_id: "T1" } },
  });
  const agent = {} as components["schemas"]["AgentShow"];
  return [
    ...[nowhere, nobodys, counted, sideways],
    // @ts-expect-error: after a problem there is no record.
    team.uuid,
    // @ts-expect-error: the object may be null.
    agent.email_addresses.primary,
    // @ts-expect-error: no member of an agent.
    agent.emails,
  ];
}
