-- One signal a document, the gravest: often retrieved and judged badly; not retrieved for long;
-- never retrieved.
found AS (
    SELECT
        corpus,
        document_id,
        count(*) AS chunks_retrieved,
        max(retrieved_at) AS last_retrieved_at
    FROM own_hits
    GROUP BY ALL
),
known AS (
    SELECT
        corpus,
        document_id,
        title,
        coalesce(chunks_retrieved, 0) AS chunks_retrieved,
        last_retrieved_at,
        coalesce(judgements, 0) AS judged,
        not_relevant / judgements AS not_relevant_share
    FROM stock
    LEFT JOIN found USING (corpus, document_id)
    LEFT JOIN judged USING (corpus, document_id)
),
signalled AS (
    SELECT
        *,
        CASE
            WHEN chunks_retrieved >= 5 AND judged >= 3 AND not_relevant_share >= 0.5
                THEN 'low_quality'
            WHEN last_retrieved_at < $until - INTERVAL 30 DAY THEN 'stale'
            WHEN chunks_retrieved = 0 THEN 'never_retrieved'
        END AS signal
    FROM known
)
SELECT
    signal,
    corpus,
    document_id,
    title,
    chunks_retrieved,
    last_retrieved_at,
    judged,
    not_relevant_share
FROM signalled
WHERE signal IS NOT NULL
ORDER BY
    list_position(['low_quality', 'stale', 'never_retrieved'], signal),
    chunks_retrieved DESC,
    corpus,
    document_id
LIMIT $limit OFFSET $offset
