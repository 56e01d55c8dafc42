-- A returned chunk at rank r is seen by about 1/r of the users: that is its exposure.
shown AS (
    SELECT
        corpus,
        document_id,
        sum(1 / rank) AS exposure,
        count(*) AS chunks_returned,
        count(*) FILTER (rank = 1) AS first_places
    FROM own_hits
    WHERE returned
    GROUP BY ALL
),
page AS (
    SELECT *, exposure / sum(exposure) OVER () AS exposure_share
    FROM shown
    ORDER BY exposure DESC, corpus, document_id
    LIMIT $limit OFFSET $offset
),
reach AS (
    SELECT own_hits.corpus, document_id, count(DISTINCT asked) AS queries
    FROM own_hits SEMI JOIN page USING (corpus, document_id)
    JOIN searches USING (retrieval_id)
    WHERE returned
    GROUP BY ALL
)
SELECT
    corpus,
    document_id,
    exposure,
    exposure_share,
    chunks_returned,
    first_places,
    queries,
    coalesce(judgements, 0) AS judged,
    coalesce(relevant + highly_relevant, 0) AS helpful,
    coalesce(not_relevant, 0) AS harmful
FROM page
JOIN reach USING (corpus, document_id)
LEFT JOIN judged USING (corpus, document_id)
ORDER BY exposure DESC, corpus, document_id
