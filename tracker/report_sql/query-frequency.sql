counted AS (
    SELECT
        corpus,
        asked AS query,
        sum(searches)::BIGINT AS searches,
        min(first_searched_at) AS first_searched_at,
        max(last_searched_at) AS last_searched_at
    FROM wordings
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
