"""Services outside, over HTTP: remote rerankers, a chat endpoint, a web search."""
