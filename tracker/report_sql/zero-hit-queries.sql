answered AS (
    SELECT DISTINCT retrieval_id, true AS is_answered FROM hits WHERE returned
)
SELECT
    corpus,
    asked AS query,
    count(*) AS searches,
    count(*) FILTER (is_answered IS NULL) AS empty,
    count(*) FILTER (is_answered IS NULL AND verdict = 'no_hits') AS nothing_retrieved,
    max(retrieved_at) FILTER (is_answered IS NULL) AS last_empty_at
FROM searches LEFT JOIN answered USING (retrieval_id)
GROUP BY ALL
HAVING empty > 0
ORDER BY empty DESC, last_empty_at DESC, corpus, query
LIMIT $limit OFFSET $offset
