measured AS (
    SELECT
        model,
        count(*) AS scored,
        min(retrieved_at) AS first_scored_at,
        max(retrieved_at) AS last_scored_at,
        avg(relevance) AS mean_relevance,
        quantile_cont(relevance, [0.05, 0.25, 0.5, 0.75, 0.95]) AS quantiles,
        avg(logit) AS mean_logit
    FROM hits
    WHERE relevance IS NOT NULL AND model IS NOT NULL
    GROUP BY ALL
)
SELECT
    model,
    scored,
    first_scored_at,
    last_scored_at,
    mean_relevance,
    quantiles[1] AS p05,
    quantiles[2] AS p25,
    quantiles[3] AS p50,
    quantiles[4] AS p75,
    quantiles[5] AS p95,
    mean_logit
FROM measured
ORDER BY last_scored_at DESC, model
LIMIT $limit OFFSET $offset
