-- Before: by fusion, among those that correction kept. After: as answered. Both among the
-- corpus's own, a document at its best chunk.
useful AS (
    SELECT retrieval_id, document_id
    FROM judgements
    WHERE outcome IN ('relevant', 'highly_relevant')
),
reranked AS (
    SELECT retrieval_id, corpus, model
    FROM searches SEMI JOIN useful USING (retrieval_id)
    WHERE rerank_applied AND model IS NOT NULL
),
placed AS (
    SELECT
        retrieval_id,
        document_id,
        row_number() OVER (
            PARTITION BY retrieval_id
            ORDER BY fusion_score DESC NULLS LAST, retrieval_rank, hit_id
        ) AS before,
        CASE WHEN returned THEN row_number() OVER (
            PARTITION BY retrieval_id ORDER BY rank NULLS LAST
        ) END AS after
    FROM own_hits SEMI JOIN reranked USING (retrieval_id)
    WHERE returned OR grade IS DISTINCT FROM 'incorrect'
),
best AS (
    SELECT retrieval_id, document_id, min(before) AS before, min(after) AS after
    FROM placed
    GROUP BY ALL
),
moves AS (
    SELECT corpus, model, before, after
    FROM useful
    JOIN reranked USING (retrieval_id)
    LEFT JOIN best USING (retrieval_id, document_id)
)
SELECT
    corpus,
    model,
    count(*) AS judged,
    count(*) FILTER (after IS NULL) AS not_returned,
    count(*) FILTER (after < before) AS up,
    count(*) FILTER (after = before) AS same,
    count(*) FILTER (after > before) AS down,
    up / nullif(up + same + down, 0) AS up_share,
    avg(before) FILTER (after IS NOT NULL) AS mean_rank_before,
    avg(after) AS mean_rank_after,
    avg(1 / before) FILTER (after IS NOT NULL) AS mrr_before,
    avg(1 / after) AS mrr_after
FROM moves
GROUP BY ALL
ORDER BY judged DESC, corpus, model
LIMIT $limit OFFSET $offset
