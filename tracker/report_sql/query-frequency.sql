counted AS (
    SELECT
        corpus,
        asked AS query,
        count(*) AS searches,
        min(retrieved_at) AS first_searched_at,
        max(retrieved_at) AS last_searched_at
    FROM searches
    GROUP BY ALL
)
SELECT
    corpus,
    query,
    searches,
    searches / sum(searches) OVER () AS share,
    first_searched_at,
    last_searched_at
FROM counted
ORDER BY searches DESC, corpus, query
LIMIT $limit OFFSET $offset
