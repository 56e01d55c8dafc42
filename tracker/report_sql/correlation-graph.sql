-- The graph of the 100 most frequent queries: one row an edge.
frequent AS (
    SELECT *
    FROM ranked
    ORDER BY query_number
    LIMIT 100
),
their_wordings AS (
    SELECT corpus, query, query_number FROM wordings JOIN frequent USING (corpus, asked)
),
theirs AS (
    SELECT retrieval_id, query_number FROM searches JOIN their_wordings USING (corpus, query)
),
edges AS (
    SELECT
        query_number,
        document_id,
        count(*) AS chunks_retrieved,
        count(*) FILTER (returned) AS chunks_returned,
        avg(relevance) AS mean_relevance
    FROM own_hits JOIN theirs USING (retrieval_id)
    GROUP BY ALL
),
outcomes AS (
    SELECT
        query_number,
        document_id,
        count(*) FILTER (outcome = 'not_relevant') AS not_relevant,
        count(*) FILTER (outcome = 'partially_relevant') AS partially_relevant,
        count(*) FILTER (outcome = 'relevant') AS relevant,
        count(*) FILTER (outcome = 'highly_relevant') AS highly_relevant
    FROM judgements JOIN theirs USING (retrieval_id)
    GROUP BY ALL
)
SELECT
    corpus,
    asked AS query,
    searches,
    document_id,
    chunks_retrieved,
    chunks_returned,
    mean_relevance,
    coalesce(not_relevant, 0) AS not_relevant,
    coalesce(partially_relevant, 0) AS partially_relevant,
    coalesce(relevant, 0) AS relevant,
    coalesce(highly_relevant, 0) AS highly_relevant
FROM edges
JOIN frequent USING (query_number)
LEFT JOIN outcomes USING (query_number, document_id)
ORDER BY query_number, chunks_retrieved DESC, document_id
LIMIT $limit OFFSET $offset
