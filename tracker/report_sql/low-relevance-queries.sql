best AS (
    SELECT retrieval_id, max(relevance) AS relevance
    FROM own_hits
    WHERE relevance IS NOT NULL
    GROUP BY ALL
)
SELECT
    corpus,
    asked AS query,
    count(*) AS searches,
    avg(relevance) AS mean_best_relevance,
    max(relevance) AS best_relevance,
    max(retrieved_at) AS last_searched_at
FROM searches JOIN best USING (retrieval_id)
GROUP BY ALL
HAVING avg(relevance) < 0.5
ORDER BY mean_best_relevance, searches DESC, corpus, query
LIMIT $limit OFFSET $offset
