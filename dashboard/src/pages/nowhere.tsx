// What is at an address that is none of the page's.

import { Text } from "../parts/basics";
import { link, route } from "../router";

export function Nowhere() {
  const { path, query } = route.value;
  return (
    <>
      <h1>No such page</h1>
      <p>
        There is nothing at <Text of={link(path, query).slice(2)} />. <a href={link([])}>All jobs</a>
      </p>
    </>
  );
}
