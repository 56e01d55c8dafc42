-- Counted by chunk, which is cheap, and by retrieval for the page's documents only.
page AS (
    SELECT
        corpus,
        document_id,
        count(*) AS chunks_retrieved,
        count(*) FILTER (returned) AS chunks_returned,
        min(retrieved_at) AS first_retrieved_at,
        max(retrieved_at) AS last_retrieved_at,
        avg(relevance) AS mean_relevance,
        max(relevance) AS best_relevance
    FROM own_hits
    GROUP BY ALL
    ORDER BY chunks_retrieved DESC, corpus, document_id
    LIMIT $limit OFFSET $offset
),
spread AS (
    SELECT corpus, document_id, count(DISTINCT retrieval_id) AS retrievals
    FROM own_hits SEMI JOIN page USING (corpus, document_id)
    GROUP BY ALL
)
SELECT
    corpus,
    document_id,
    chunks_retrieved,
    chunks_returned,
    retrievals,
    first_retrieved_at,
    last_retrieved_at,
    mean_relevance,
    best_relevance,
    coalesce(not_relevant, 0) AS not_relevant,
    coalesce(partially_relevant, 0) AS partially_relevant,
    coalesce(relevant, 0) AS relevant,
    coalesce(highly_relevant, 0) AS highly_relevant
FROM page
JOIN spread USING (corpus, document_id)
LEFT JOIN judged USING (corpus, document_id)
ORDER BY chunks_retrieved DESC, corpus, document_id
