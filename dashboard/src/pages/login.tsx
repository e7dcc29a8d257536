// Asks for the token, which this tab keeps until it is closed.

import { useState } from "preact/hooks";
import { needsToken, token, useToken } from "../session";
import { askAll } from "../poll";

export function Login() {
  const [typed, setTyped] = useState("");
  const insecure = !isSecureContext;
  const enter = (event: Event) => {
    event.preventDefault();
    useToken(typed.trim());
    askAll();
  };
  return (
    <>
      <h1>Token</h1>
      <form class="login" onSubmit={enter}>
        <p>This coordinator answers only who brings its token: the value of [coordinator] token, or read_token for reading.</p>
        {insecure && <p class="banner">▲ This page came over plain http: the token crosses the network as it is.</p>}
        <label>
          token{" "}
          <input type="password" autocomplete="off" spellcheck={false} value={typed} onInput={(event) => setTyped(event.currentTarget.value)} />
        </label>{" "}
        <button type="submit" disabled={typed.trim() === ""}>
          enter
        </button>
        <p class="dim">It is kept for this tab, and gone when that is closed.</p>
      </form>
    </>
  );
}

export function isLoginNeeded(): boolean {
  return needsToken.value && (token.value === null || needsToken.value);
}
